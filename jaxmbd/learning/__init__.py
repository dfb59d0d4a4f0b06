"""Training of networks, and of any other numbers, through the simulator."""

from .train import Training as Training
from .train import TrainingWarning as TrainingWarning
from .train import train as train
