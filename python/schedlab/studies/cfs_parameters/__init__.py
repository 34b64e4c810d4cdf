"""Parameters of CFS and a web server's throughput."""
