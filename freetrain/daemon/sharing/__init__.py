"""Who may have which part of the nodes that are lent: trainers compete only with those of their own user."""
