"""``scripts/watch-kernels``: kernels of Debian's archive whose rules are not known."""
