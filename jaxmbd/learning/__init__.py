"""Training of networks, and of any other numbers, through the simulator; environments."""

from . import environments as environments
from .environment import Environment as Environment
from .environment import Episode as Episode
from .train import Training as Training
from .train import TrainingWarning as TrainingWarning
from .train import train as train
