"""The tables of the settings file, a file for each matter; ``config/model.py`` lists them."""
