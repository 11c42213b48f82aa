"""CARs of version 1: files of blocks, each verified by its CID.

`reader` reads whole files and streams that are split anywhere, and finds the CARv1 in a CARv2. `writer`
writes whole files, headers and single sections.
"""

from culm_models.dag.car.reader import Car, CarStream, Section, read_car
from culm_models.dag.car.writer import car_header, car_section, write_car

__all__ = ["Car", "CarStream", "Section", "car_header", "car_section", "read_car", "write_car"]
