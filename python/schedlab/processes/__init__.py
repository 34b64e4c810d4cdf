"""Child processes: started bounded, ended with us, and what others took meanwhile."""
