"""An arm with seven joints as URDF and as MJCF, and a four-bar."""

import numpy as np

_JOINTS = [  # origin, roll-pitch-yaw, axis; mass, center, inertia of the link
    ((0, 0, 0.3), (0.0, 0.0, 0.3), (0, 0, 1), 3.0, (0, 0.02, 0.1)),
    ((0, 0.05, 0.2), (-1.2, 0.1, 0.0), (0, 0, 1), 2.5, (0, -0.1, 0.02)),
    ((0, -0.2, 0.0), (1.3, 0.0, 0.2), (0, 0.1, 1), 2.0, (0.01, 0.02, 0.1)),
    ((0.04, 0, 0.2), (1.5, -0.2, 0.1), (0.2, 0, 1), 1.8, (0.02, 0.1, 0)),
    ((0, 0.2, 0), (-1.4, 0.3, -0.1), (0, 0, 1), 1.2, (0, 0.03, 0.08)),
    ((0.02, 0, 0.15), (1.2, 0.0, 0.4), (0, 1, 0.3), 0.8, (0.03, 0, 0.02)),
    ((0.08, 0, 0), (0.3, 1.0, 0.2), (0, 0, 1), 0.4, (0, 0.01, 0.05)),
]


def _inertia(k: int) -> np.ndarray:
    rng = np.random.default_rng(k)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return R @ np.diag([0.02, 0.03, 0.025]) @ R.T / (k + 1)


def _texts(x) -> str:
    return " ".join(repr(float(v)) for v in x)


def arm_urdf() -> str:
    parts = ['<robot name="arm7"> <link name="base"/>']
    for k, (xyz, rpy, axis, mass, center) in enumerate(_JOINTS):
        J = _inertia(k)
        parts.append(f"""<link name="link{k}"> <inertial> <origin xyz="{_texts(center)}"/>
          <mass value="{mass}"/> <inertia ixx="{J[0, 0]!r}" ixy="{J[0, 1]!r}" ixz="{J[0, 2]!r}"
          iyy="{J[1, 1]!r}" iyz="{J[1, 2]!r}" izz="{J[2, 2]!r}"/> </inertial>
          <visual> <origin xyz="0 0 0.05"/> <geometry> <cylinder radius="0.03" length="0.1"/>
          </geometry> <material name="grey"> <color rgba="0.5 0.5 0.5 1"/> </material> </visual>
          <collision> <geometry> <sphere radius="0.05"/> </geometry> </collision> </link>
        <joint name="joint{k}" type="revolute"> <origin xyz="{_texts(xyz)}" rpy="{_texts(rpy)}"/>
          <parent link="{"base" if k == 0 else f"link{k - 1}"}"/> <child link="link{k}"/>
          <axis xyz="{_texts(axis)}"/> <limit lower="-2" upper="2" effort="50" velocity="2"/>
        </joint>""")
    parts.append("""<link name="tool"/> <joint name="mount" type="fixed"> <parent link="link6"/>
      <child link="tool"/> <origin xyz="0 0 0.1"/> </joint>""")
    return "\n".join([*parts, "</robot>"]).replace("np.float64(", "").replace(")", "")


def arm_mjcf() -> str:
    opened, closed = "", ""
    for k, (xyz, rpy, axis, mass, center) in enumerate(_JOINTS):
        J = _inertia(k)
        full = _texts([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])
        opened += f"""<body name="link{k}" pos="{_texts(xyz)}" euler="{_texts(rpy)}">
          <joint name="joint{k}" axis="{_texts(axis)}"/>
          <inertial pos="{_texts(center)}" mass="{mass}" fullinertia="{full}"/>"""
        closed += "</body>"
    return f"""<mujoco model="arm7"> <compiler angle="radian" eulerseq="XYZ"/>
      <worldbody> {opened} {closed} </worldbody> </mujoco>"""


def link(name: str, length: float) -> str:
    return f"""<link name="{name}"> <inertial> <origin xyz="{0.5 * length} 0 0"/> <mass value="1"/>
      <inertia ixx="0.001" iyy="{length**2 / 12}" izz="{length**2 / 12}"/> </inertial> </link>"""


FOUR_BAR = f"""<robot name="four-bar">
  <link name="base"/> {link("crank", 0.4)} {link("coupler", 1.0)} {link("rocker", 0.8)}
  <link name="end of coupler"/> <link name="end of rocker"/>
  <joint name="a" type="continuous"> <parent link="base"/> <child link="crank"/>
    <axis xyz="0 1 0"/> <origin rpy="0 {-np.pi / 2} 0"/> </joint>
  <joint name="b" type="continuous"> <parent link="crank"/> <child link="coupler"/>
    <axis xyz="0 1 0"/> <origin xyz="0.4 0 0" rpy="0 {np.pi / 2 - np.arctan(0.5)} 0"/> </joint>
  <joint name="d" type="continuous"> <parent link="base"/> <child link="rocker"/>
    <axis xyz="0 1 0"/> <origin xyz="1 0 0" rpy="0 {-np.pi / 2} 0"/> </joint>
  <joint name="tip b" type="fixed"> <parent link="coupler"/> <child link="end of coupler"/>
    <origin xyz="{np.hypot(1.0, 0.5)} 0 0"/> </joint>
  <joint name="tip d" type="fixed"> <parent link="rocker"/> <child link="end of rocker"/>
    <origin xyz="0.9 0 0"/> </joint>
</robot>"""
