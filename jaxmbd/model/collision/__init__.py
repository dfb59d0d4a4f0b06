"""Where two surfaces touch: gaps, normals and nearest points of two poses.

This room knows surfaces and poses; it knows no forces. A pair of surfaces is a class derived from
`AbstractPair`, and a row of the table of pairs (`register_pair`).
"""
