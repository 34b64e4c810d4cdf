"""What is measured on real kernels: costs, recordings, behaviour, how near simulation comes."""
