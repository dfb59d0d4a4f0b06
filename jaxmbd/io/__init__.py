"""Files: model files (JSON), safe expressions of time, result files.

This layer knows descriptions and results and how they are written; files are data, never code. A
new field of the body is a line in `schema.py`; elements declare their own. A new format is a file
and its entry in `formats.py`.
"""

from ..model.expressions import Expression as Expression
from ..model.expressions import ExpressionError as ExpressionError
from .formats import read_file as read_file
from .formats import register_format as register_format
from .formats import write_file as write_file
from .import_report import ImportReport as ImportReport
from .import_report import LeftOut as LeftOut
from .mjcf import read_mjcf as read_mjcf
from .model_files import ModelFileError as ModelFileError
from .model_files import ModelFileWarning as ModelFileWarning
from .model_files import mechanism_from_dict as mechanism_from_dict
from .model_files import read_mechanism as read_mechanism
from .results import ResultFileError as ResultFileError
from .results import read_npz as read_npz
from .schema import json_schema as json_schema
from .urdf import UrdfOptions as UrdfOptions
from .urdf import read_urdf as read_urdf
from .writer import mechanism_to_dict as mechanism_to_dict
