"""One worker's part in a training, whoever makes its steps: its state, its worlds, its records."""
