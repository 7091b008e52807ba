"""An experiment for each of the other systems: what it gains over simpler rules, on made-up trainings, seeded."""
