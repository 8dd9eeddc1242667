"""What each value of a file is and where it lives: the lattice, the flow through functions and classes, the facts."""
