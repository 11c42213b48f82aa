"""A folder that Python workers have in their path, for the one module that they run at their start."""
