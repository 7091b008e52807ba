"""SMD (INFOCOM 2021): how many workers and parameter servers each training gets, and which trainings run."""
