"""freetrain turns the idle node × time holes of a Slurm machine into deep-learning training."""

__version__ = "0.2.0"
