"""Independent answers to the decision problem: slow, simple, and written without the policies' code."""
