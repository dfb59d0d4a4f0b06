"""Examples of the page "Joints and drivers"."""

import jaxmbd as mbd

# %% Revolute
m = mbd.Mechanism("door")
door = m.add_body("door", shape=mbd.Box((0.9, 0.04, 2.0), mass=25.0), r=(0.45, 0.0, 1.0))
m.add(mbd.Revolute("hinge", m.ground, door, point=(0.0, 0.0, 1.0), axis=(0.0, 0.0, 1.0)))
