"""Placing a mechanism by goals and limits: inverse kinematics with loops, one pose or a path."""
