"""Twelve tree models in MJCF, of the kinds that users have, and five with closed loops."""

import numpy as np

ARM = """
<mujoco model="arm">
  <compiler angle="degree" autolimits="true"/>
  <option gravity="0.1 0.2 -9.81"/>
  <default>
    <joint armature="0.1" damping="0.3"/> <geom density="700"/>
    <default class="wrist"> <joint armature="0.02" damping="0.05"/> </default>
  </default>
  <worldbody>
    <body name="base" pos="0.1 0.2 0.5" quat="0.9 0.1 0.2 -0.3">
      <joint name="j1" axis="0.1 0.2 1" pos="0.01 0 0.02" stiffness="3" springref="20" ref="10"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.04"/>
      <body name="upper" pos="0.3 0 0.1" euler="20 30 40">
        <joint name="j2" axis="0 1 0" range="-90 90"/>
        <geom type="box" size="0.1 0.05 0.03" pos="0.1 0 0"/>
        <body name="fore" pos="0.2 0 0"> <joint name="j3" axis="0 1 0"/>
          <geom type="cylinder" size="0.03 0.15" euler="0 90 0" pos="0.15 0 0"/>
          <body name="hand" pos="0.3 0 0" childclass="wrist"> <joint name="j4" axis="1 0 0"/>
            <geom type="ellipsoid" size="0.05 0.04 0.02" pos="0.05 0 0"/>
            <site name="tip" pos="0.1 0 0"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

HAND = """
<mujoco model="hand">
  <default> <joint armature="0.001" damping="0.01" axis="0 1 0"/>
    <geom type="capsule" size="0.01" mass="0.03"/> </default>
  <worldbody>
    <body name="palm" pos="0 0 0.3"> <joint name="wrist" type="ball" damping="0.1" armature="0.01"/>
      <geom type="box" size="0.05 0.04 0.01" mass="0.4" pos="0.04 0 0"/>
      FINGERS
    </body>
  </worldbody>
</mujoco>
""".replace(
    "FINGERS",
    "".join(
        f"""<body name="p{k}" pos="0.09 {y} 0"> <joint name="a{k}" axis="0 0 1" stiffness="0.2"/>
          <joint name="b{k}"/> <geom fromto="0 0 0 0.04 0 0"/>
          <body name="m{k}" pos="0.04 0 0"> <joint name="c{k}"/> <geom fromto="0 0 0 0.03 0 0"/>
          </body> </body>"""
        for k, y in enumerate((-0.03, 0.0, 0.03))
    ),
)

QUADRUPED = """
<mujoco model="quadruped">
  <default> <joint damping="0.5" armature="0.02"/> <geom density="900"/> </default>
  <worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <body name="trunk" pos="0 0 0.5"> <freejoint/>
      <geom type="box" size="0.25 0.1 0.06"/>
      LEGS
    </body>
  </worldbody>
</mujoco>
""".replace(
    "LEGS",
    "".join(
        f"""<body name="hip{k}" pos="{x} {y} 0"> <joint name="roll{k}" axis="1 0 0"/>
          <geom type="sphere" size="0.05"/>
          <body name="thigh{k}" pos="0 {0.5 * y} 0"> <joint name="pitch{k}" axis="0 1 0"/>
            <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2"/>
            <body name="calf{k}" pos="0 0 -0.2"> <joint name="knee{k}" axis="0 1 0"/>
              <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2"/> </body> </body> </body>"""
        for k, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)))
    ),
)

HUMANOID = """
<mujoco model="humanoid">
  <compiler angle="degree"/>
  <default> <joint damping="1" armature="0.05" stiffness="2"/> <geom type="capsule" size="0.06"/>
  </default>
  <worldbody>
    <body name="torso" pos="0 0 1.3"> <freejoint name="root"/>
      <geom fromto="0 -.07 0 0 .07 0" size="0.07"/> <geom type="sphere" size="0.09" pos="0 0 .19"/>
      <body name="waist" pos="0 0 -0.16" quat="1 0 -0.002 0">
        <joint name="abdomen_z" axis="0 0 1"/> <joint name="abdomen_y" axis="0 1 0"/>
        <geom fromto="0 -.06 0 0 .06 0"/>
        <body name="right_thigh" pos="0 -0.1 -0.1">
          <joint name="hip_x" axis="1 0 0"/> <joint name="hip_z" axis="0 0 1"/>
          <joint name="hip_y" axis="0 1 0"/> <geom fromto="0 0 0 0 .01 -.34"/>
          <body name="right_shin" pos="0 .01 -0.4"> <joint name="knee" axis="0 -1 0" pos="0 0 .02"/>
            <geom fromto="0 0 0 0 0 -.3" size="0.05"/> </body> </body>
      </body>
      <body name="right_arm" pos="0 -0.17 0.06">
        <joint name="shoulder1" axis="2 1 1"/> <joint name="shoulder2" axis="0 -1 1"/>
        <geom fromto="0 0 0 .16 -.16 -.16" size="0.04"/>
        <body name="right_hand" pos=".18 -.18 -.18"> <joint name="elbow" axis="0 -1 1"/>
          <geom fromto="0.01 0.01 0.01 .17 .17 .17" size="0.03"/> </body> </body>
    </body>
  </worldbody>
</mujoco>
"""

SLIDES = """
<mujoco model="gantry">
  <worldbody>
    <body name="bridge" pos="0 0 1"> <joint name="x" type="slide" axis="1 0 0" damping="4"/>
      <inertial pos="0.1 0 0" mass="5" diaginertia="0.2 0.3 0.4" quat="0.9 0.1 0.3 0.2"/>
      <body name="cart"> <joint name="y" type="slide" axis="0 1 0" stiffness="30" springref="0.2"/>
        <joint name="turn" axis="0 0 1" armature="0.3"/>
        <inertial pos="0 0 -0.1" mass="2" fullinertia="0.2 0.3 0.4 0.01 -0.02 0.03"/>
        <body name="tool" pos="0 0.1 -0.2"> <joint name="z" type="slide" axis="0 0.2 1"/>
          <inertial pos="0.02 0 -0.1" mass="1" diaginertia="0.02 0.03 0.04"/> </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

BALLS = """
<mujoco model="chain of balls">
  <default> <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0.05 0" mass="0.5"/> </default>
  <worldbody>
    <body name="a"> <joint type="ball" armature="0.02"/> <geom/>
      <body name="b" pos="0.2 0.05 0"> <joint type="ball" damping="0.1"/> <geom/>
        <body name="c" pos="0.2 0.05 0"> <joint type="ball" armature="0.01" damping="0.05"/> <geom/>
        </body> </body> </body>
  </worldbody>
</mujoco>
"""

PLANAR = """
<mujoco model="hopper">
  <option gravity="0 0 -9.81"/>
  <default> <joint axis="0 1 0"/> <geom type="capsule" size="0.04" density="1000"/> </default>
  <worldbody>
    <body name="torso" pos="0 0 1.2">
      <joint name="rootx" type="slide" axis="1 0 0"/>
      <joint name="rootz" type="slide" axis="0 0 1"/>
      <joint name="rooty" pos="0 0 0"/> <geom fromto="0 0 0.2 0 0 -0.2"/>
      <body name="thigh" pos="0 0 -0.2"> <joint name="hip" armature="1" damping="1"/>
        <geom fromto="0 0 0 0 0 -0.45"/>
        <body name="leg" pos="0 0 -0.45"> <joint name="knee" armature="0.5"/>
          <geom fromto="0 0 0 0 0 -0.5"/> </body> </body>
    </body>
  </worldbody>
</mujoco>
"""

WELDED = """
<mujoco model="welded">
  <worldbody>
    <body name="stand" pos="1 0 0"> <geom type="box" size="0.1 0.1 0.1"/>
      <body name="link" pos="0 0 0.5"> <joint axis="1 0.2 0"/>
        <geom type="box" size="0.2 0.03 0.03"/>
        <body name="flange" pos="0.2 0 0" euler="10 20 30">
          <body name="tool" pos="0 0.1 0"> <geom type="sphere" size="0.05"/>
            <body name="tip" pos="0 0.05 0"> <joint axis="0 0 1"/> <geom type="sphere" size="0.03"
              pos="0.05 0 0"/> </body> </body> </body> </body> </body>
  </worldbody>
</mujoco>
"""

SERVOS = """
<mujoco model="servos">
  <default> <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/> </default>
  <worldbody>
    <body name="a"> <joint name="a" axis="0 1 0" ref="0.4"/> <geom/>
      <body name="b" pos="0.3 0 0"> <joint name="b" axis="0 1 0.1"/> <geom/>
        <body name="c" pos="0.3 0 0"> <joint name="c" type="slide" axis="1 0 0.2"/> <geom/>
        </body> </body> </body>
  </worldbody>
  <tendon>
    <fixed name="cord" stiffness="4" damping="0.5" springlength="0.3">
      <joint joint="a" coef="0.5"/> <joint joint="c" coef="-2"/> </fixed>
  </tendon>
  <actuator>
    <motor name="motor" joint="a" gear="3"/> <position name="servo" joint="b" kp="7" kv="0.4"/>
    <velocity name="speed" joint="c" kv="2" gear="2"/>
    <general name="pull" tendon="cord" gainprm="2" biastype="affine" biasprm="0.3 -4 -0.2"
      gear="1.5"/>
  </actuator>
  <keyframe> <key name="home" qpos="0.5 -0.3 0.1" qvel="1 2 -0.5" ctrl="1 0.2 0.3 0.7"/> </keyframe>
</mujoco>
"""

# The same with limits, some of which hold at the keyframe and at most poses.
SATURATED = (
    SERVOS.replace('joint="a" gear="3"', 'joint="a" gear="-3" ctrlrange="-0.5 0.6"')
    .replace('kv="0.4"', 'kv="0.4" forcerange="-1 0.5"')
    .replace('kv="2" gear="2"', 'kv="2" gear="-2" ctrlrange="-1 1" forcerange="-0.4 0.2"')
    .replace('gear="1.5"', 'gear="1.5" ctrlrange="-0.5 0.5" forcerange="-0.3 5"')
)

# Actuators with states, a damper that its control sets, and ranges of joints that cut efforts off.
ACTIVATED = """
<mujoco model="activated">
  <default> <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/> </default>
  <worldbody>
    <body name="a"> <joint name="a" axis="0 1 0" ref="0.4"/> <geom/>
      <body name="b" pos="0.3 0 0">
        <joint name="b" axis="0 1 0.1" actuatorfrcrange="-0.6 0.5" actuatorfrclimited="true"/>
        <geom/>
        <body name="c" pos="0.3 0 0"> <joint name="c" type="slide" axis="1 0 0.2"/> <geom/>
          <body name="d" pos="0 0.3 0"> <joint name="d" axis="1 0 0"/> <geom/> </body>
        </body> </body> </body>
  </worldbody>
  <actuator>
    <general name="lag" joint="a" gear="3" dyntype="filterexact" dynprm="0.05" gainprm="2"
      ctrlrange="-1 1" biastype="affine" biasprm="0.1 -2 -0.3"/>
    <general name="filter" joint="b" dyntype="filter" dynprm="0.2" gainprm="5" actrange="-1 1"
      forcerange="-2 0.7"/>
    <intvelocity name="steer" joint="c" gear="2" kp="3" kv="0.1" actrange="-0.5 0.8"/>
    <damper name="damper" joint="d" gear="1.5" kv="0.7" ctrlrange="0 2"/>
    <general name="spring" joint="d" gainprm="0.2 -0.6 0.1" gaintype="affine"/>
  </actuator>
  <keyframe> <key name="home" qpos="0.5 -0.3 0.1 0.2" qvel="1 2 -0.5 0.3"
    ctrl="1.5 0.2 0.3 0.7 -0.4" act="0.4 0.3 -0.2"/> </keyframe>
</mujoco>
"""

SPRINGS = """
<mujoco model="springs">
  <worldbody>
    <site name="wall" pos="0.5 0.1 1"/>
    <body name="a" gravcomp="0.4"> <joint axis="0 1 0" stiffness="5"/>
      <geom type="box" size="0.3 0.02 0.03" pos="0.3 0 0"/> <site name="end" pos="0.6 0 0"/>
      <body name="b" pos="0.6 0 0">
        <joint axis="0 0 1" stiffness="1" springref="0.7" damping="0.2"/>
        <geom type="box" size="0.1 0.2 0.03" pos="0.1 0.05 0"/> </body>
    </body>
  </worldbody>
  <tendon> <spatial name="rope" stiffness="20" damping="2" springlength="0.4"> <site site="wall"/>
    <site site="end"/> </spatial> </tendon>
</mujoco>
"""

HEAVY_ROTOR = """
<mujoco model="light links on heavy rotors">
  <default> <joint armature="3" damping="0.1"/> </default>
  <worldbody>
    <body name="a"> <joint axis="0 0 1"/>
      <inertial pos="0 0.1 0" mass="0.1" diaginertia="1e-3 1e-3 1e-3"/>
      <body name="b" pos="0 0.2 0"> <joint axis="1 0 0"/>
        <inertial pos="0 0.1 0" mass="0.1" diaginertia="1e-3 1e-3 1e-3"/>
        <body name="c" pos="0 0.2 0"> <joint axis="1 0 1"/>
          <inertial pos="0 0.1 0" mass="0.1" diaginertia="1e-3 1e-3 1e-3"/> </body> </body> </body>
  </worldbody>
</mujoco>
"""

# The body of a file that includes defaults and a leg from two others.
INCLUDING = {
    "main.xml": """<mujoco model="with includes"> <include file="defaults.xml"/> <worldbody>
      <body name="trunk" pos="0 0 1"> <joint axis="0 1 0"/> <geom size="0.2"/>
      <include file="parts/leg.xml"/> </body> </worldbody> </mujoco>""",
    "defaults.xml": """<mujocoinclude> <default> <joint armature="0.1"/>
      <geom type="sphere" density="500"/> </default> </mujocoinclude>""",
    "parts/leg.xml": """<mujocoinclude> <body name="leg" pos="0 0 -0.3"> <joint axis="1 0 0"/>
      <geom size="0.1" pos="0 0.1 -0.1"/> </body> </mujocoinclude>""",
}

TREES = {
    "arm": ARM,
    "hand": HAND,
    "quadruped": QUADRUPED,
    "humanoid": HUMANOID,
    "slides": SLIDES,
    "balls": BALLS,
    "planar": PLANAR,
    "welded": WELDED,
    "servos": SERVOS,
    "activated": ACTIVATED,
    "saturated": SATURATED,
    "springs": SPRINGS,
    "rotors": HEAVY_ROTOR,
}

FOUR_BAR = """
<mujoco model="four-bar"> <option gravity="2 0 -9.81"/>
  <default> <geom type="capsule" size="0.02" density="2700"/> <joint axis="0 1 0"/> </default>
  <worldbody>
    <body name="crank"> <joint name="a" damping="0.01"/> <geom fromto="0 0 0 0 0 0.4"/>
      <body name="coupler" pos="0 0 0.4"> <joint name="b"/> <geom fromto="0 0 0 1 0 0.4"/> </body>
    </body>
    <body name="rocker" pos="1 0 0"> <joint name="d"/> <geom fromto="0 0 0 0 0 0.8"/> </body>
  </worldbody>
  <equality> <connect name="c" body1="coupler" body2="rocker" anchor="1 0 0.4"/> </equality>
</mujoco>
"""

FIVE_BAR = """
<mujoco model="five-bar">
  <default> <geom type="capsule" size="0.015" density="2700"/>
    <joint axis="0 1 0" armature="0.01" damping="0.05"/> </default>
  <worldbody>
    <body name="left" pos="-0.1 0 0"> <joint name="m1"/> <geom fromto="0 0 0 -0.1 0 -0.2"/>
      <body name="left rod" pos="-0.1 0 -0.2"> <joint name="k1" armature="0"/>
        <geom fromto="0 0 0 0.2 0 -0.3"/> <site name="foot1" pos="0.2 0 -0.3"/> </body> </body>
    <body name="right" pos="0.1 0 0"> <joint name="m2"/> <geom fromto="0 0 0 0.1 0 -0.2"/>
      <body name="right rod" pos="0.1 0 -0.2"> <joint name="k2" armature="0"/>
        <geom fromto="0 0 0 -0.2 0 -0.3"/> <site name="foot2" pos="-0.2 0 -0.3"/> </body> </body>
  </worldbody>
  <equality> <connect name="foot" site1="foot1" site2="foot2"/> </equality>
  <actuator> <position name="servo1" joint="m1" kp="20" kv="1"/> </actuator>
</mujoco>
"""


def _texts(x) -> str:
    return " ".join(repr(float(v)) for v in x)


def _stewart() -> str:
    """Six legs of two parts with slides, on cardan joints below and ball joints above."""
    legs = equalities = sites = ""
    for k in range(6):
        turn, low = k * np.pi / 3.0, 0.5
        foot = low * np.array([np.cos(turn), np.sin(turn), 0.0])
        side = turn + (0.4 if k % 2 else -0.4)
        top = np.array([0.3 * np.cos(side), 0.3 * np.sin(side), 0.8])
        d = (top - foot) / np.linalg.norm(top - foot)
        across = np.array([-np.sin(turn), np.cos(turn), 0.0])
        text, at, end, reach = map(_texts, (d, foot, 0.4 * d, top - foot))
        first, second = _texts(across), _texts(np.cross(across, d))
        legs += f"""<body name="cylinder{k}" pos="{at}"> <joint name="u{k}" axis="{first}"/>
          <joint name="v{k}" axis="{second}"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 {end}"/>
          <body name="piston{k}"> <joint name="s{k}" type="slide" axis="{text}" damping="20"
            stiffness="3000"/> <geom type="capsule" size="0.01" fromto="{end} {reach}"/>
            <site name="top{k}" pos="{reach}"/> </body> </body>"""
        site = _texts(top - np.array([0.0, 0.0, 0.8]))
        equalities += f'<connect name="ball{k}" site1="top{k}" site2="p{k}"/>'
        sites += f'<site name="p{k}" pos="{site}"/>'
    return f"""<mujoco model="stewart"> <worldbody> {legs}
      <body name="platform" pos="0 0 0.8"> <freejoint/>
        <geom type="cylinder" size="0.3 0.02" density="800"/> {sites} </body> </worldbody>
      <equality> {equalities} </equality> </mujoco>"""


STEWART = _stewart()

GRIPPER = """
<mujoco model="gripper">
  <default> <geom type="box" density="2700"/> <joint axis="0 1 0" armature="0.005" damping="0.1"/>
    <default class="follower"> <joint armature="0.001" damping="0.01"/> </default> </default>
  <worldbody>
    <body name="base"> <geom size="0.03 0.02 0.02"/>
      <body name="right driver" pos="0.03 0 0.05"> <joint name="right_driver_joint"/>
        <geom size="0.02 0.01 0.005" pos="0.02 0 0"/>
        <body name="right coupler" pos="0.04 0 0"> <joint name="rc" class="follower"/>
          <geom size="0.005 0.01 0.03" pos="0 0 0.03"/> </body> </body>
      <body name="right spring link" pos="0.015 0 0.06">
        <joint name="rs" class="follower" stiffness="0.05" springref="2.6"/>
        <geom size="0.02 0.01 0.004" pos="0.02 0 0.01"/>
        <body name="right follower" pos="0.04 0 0.02"> <joint name="rf" class="follower"/>
          <geom size="0.01 0.01 0.02" pos="0.01 0 0.02"/> </body> </body>
      <body name="left driver" pos="-0.03 0 0.05"> <joint name="left_driver_joint" axis="0 -1 0"/>
        <geom size="0.02 0.01 0.005" pos="-0.02 0 0"/>
        <body name="left coupler" pos="-0.04 0 0"> <joint name="lc" class="follower"
          axis="0 -1 0"/> <geom size="0.005 0.01 0.03" pos="0 0 0.03"/> </body> </body>
      <body name="left spring link" pos="-0.015 0 0.06">
        <joint name="ls" class="follower" axis="0 -1 0" stiffness="0.05" springref="2.6"/>
        <geom size="0.02 0.01 0.004" pos="-0.02 0 0.01"/>
        <body name="left follower" pos="-0.04 0 0.02"> <joint name="lf" class="follower"
          axis="0 -1 0"/> <geom size="0.01 0.01 0.02" pos="-0.01 0 0.02"/> </body> </body>
    </body>
  </worldbody>
  <equality>
    <connect name="right loop" body1="right follower" body2="right coupler" anchor="0.015 0 0.03"/>
    <connect name="left loop" body1="left follower" body2="left coupler" anchor="-0.015 0 0.03"/>
    <joint name="together" joint1="right_driver_joint" joint2="left_driver_joint"
      polycoef="0 1 0 0 0"/>
  </equality>
  <tendon> <fixed name="split"> <joint joint="right_driver_joint" coef="0.5"/>
    <joint joint="left_driver_joint" coef="0.5"/> </fixed> </tendon>
  <actuator> <general name="fingers" tendon="split" gainprm="0.5" biastype="affine"
    biasprm="0 -2 -0.2" forcerange="-5 5" ctrlrange="0 255"/> </actuator>
  <keyframe> <key name="closing" ctrl="1"/> </keyframe>
</mujoco>
"""

LEG = """
<mujoco model="leg with rods">
  <default> <geom type="capsule" size="0.02" density="1500"/> <joint axis="0 1 0" damping="0.2"/>
  </default>
  <worldbody>
    <body name="pelvis" pos="0 0 1"> <joint name="lift" type="slide" axis="0 0 1" stiffness="800"/>
      <joint name="sway" type="slide" axis="1 0 0" stiffness="800" damping="5"/>
      <geom type="box" size="0.1 0.1 0.05"/>
      <body name="thigh"> <joint name="hip" armature="0.1"/> <geom fromto="0 0 0 0.1 0 -0.4"/>
        <body name="achilles rod" pos="0 0 -0.05"> <joint name="rod ball" type="ball"/>
          <inertial pos="0.1 0 -0.25" mass="0.15" diaginertia="0.004 0.004 1e-4"/> </body>
        <body name="knee" pos="0.1 0 -0.4"> <joint name="knee" armature="0.05"/>
          <geom fromto="0 0 0 -0.05 0 -0.1"/>
          <body name="shin" pos="-0.05 0 -0.1"> <joint name="shin" stiffness="300"/>
            <geom fromto="0 0 0 -0.1 0 -0.3"/>
            <body name="tarsus" pos="-0.1 0 -0.3"> <joint name="tarsus"/>
              <geom fromto="0 0 0 0.2 0 -0.2"/>
              <body name="heel" pos="-0.02 0.05 0.02"> <joint name="heel spring" stiffness="200"/>
                <geom fromto="0 0 0 0.1 0 0.05"/> </body>
            </body> </body> </body> </body>
    </body>
  </worldbody>
  <equality> <connect name="achilles" body1="achilles rod" body2="heel" anchor="0.13 0.05 -0.68"/>
  </equality>
</mujoco>
"""

# Loops, freedoms and rank, counted by hand: planar loops of one freedom for every bar beyond three;
# a platform's six, and each leg of its own joints.
LOOPS = {
    "four-bar": (FOUR_BAR, ["c"], 1),
    "five-bar": (FIVE_BAR, ["foot"], 2),
    "stewart": (STEWART, [f"ball{k}" for k in range(6)], 6),
    # Four hinges on each side, of which a point removes two, and one coupling: underactuated.
    "gripper": (GRIPPER, ["right loop", "left loop", "together"], 3),
    # Seven hinges and slides and a ball, ten in all; the rod's point removes three and leaves it
    # its turn about itself.
    "leg": (LEG, ["achilles"], 7),
}
