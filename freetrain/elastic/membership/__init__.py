"""Who belongs to the trainer: how a worker comes, stays and goes."""
