"""A folder that Spark's Python workers have in their path.

- ``sitecustomize``: Python imports it by this name before all else; it drops the zip of PySpark's sources.
"""
