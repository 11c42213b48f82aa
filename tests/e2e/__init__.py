"""A package, so that the deployment of its tests ends with the last of them."""
