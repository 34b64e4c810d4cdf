"""Where waiting time goes: which rule kept a task that could run, and what would change that."""
