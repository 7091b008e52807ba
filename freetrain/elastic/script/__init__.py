"""What a training script sees: a run that makes its steps, or a loop that the script keeps."""
