"""Files: model files (JSON), safe expressions of time, result files.

This layer knows descriptions and results and how they are written; files are data, never code. A new field of the
format is a line in `schema.py` and its use in `model_files.py`.
"""

from .expressions import Expression as Expression
from .expressions import ExpressionError as ExpressionError
from .model_files import ModelFileError as ModelFileError
from .model_files import ModelFileWarning as ModelFileWarning
from .model_files import mechanism_from_dict as mechanism_from_dict
from .model_files import read_mechanism as read_mechanism
from .results import ResultFileError as ResultFileError
from .results import read_npz as read_npz
from .schema import json_schema as json_schema
