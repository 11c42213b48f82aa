"""CARs of version 1: blocks in a file, each proved by its CID.

`reader` reads whole files and streams cut anywhere, and finds the CARv1 in a CARv2; `writer` writes them, and
the header alone.
"""

from culm_models.dag.car.reader import Car, CarStream, Section, read_car
from culm_models.dag.car.writer import car_header, car_section, write_car

__all__ = ["Car", "CarStream", "Section", "car_header", "car_section", "read_car", "write_car"]
