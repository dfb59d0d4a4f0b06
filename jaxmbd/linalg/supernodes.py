"""Which unknowns of a saddle matrix make one node of its elimination: a body with the rows that its
joint adds, or bodies and rows apart.
"""

from collections.abc import Sequence

# Bodies of every row.
BodiesOfRows = Sequence[tuple[int, ...]]
# Rows in the nodes of bodies; nodes of other rows with the bodies that these bind; and the bodies
# for which each of these waits.
Nodes = tuple[list[list[int]], list[tuple[list[int], tuple[int, ...]]], list[set[int]]]


def _rows(
    nb: int, row_bodies: BodiesOfRows, inner: int
) -> tuple[list[list[int]], dict[tuple[int, ...], list[int]]]:
    """Rows that bind one body alone, by body, and those between several, by the set of them.

    Rows between a body and the ground count as a pair too.
    """
    own: list[list[int]] = [[] for _ in range(nb)]
    joints = len(row_bodies) - inner
    for row in range(joints, len(row_bodies)):
        own[min(row_bodies[row])].append(row)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row in range(joints):
        moving = sorted({b for b in row_bodies[row] if b < nb})
        groups.setdefault(tuple(moving if len(moving) > 1 else [*moving, nb]), []).append(row)
    return own, groups


def bodies_and_rows(nb: int, d: int, row_bodies: BodiesOfRows, inner: int) -> Nodes:
    """As `supernodes`, with the rows of all joints apart from the bodies and after them.

    Rows between several bodies join those of one of these, such as a gear's the rows of a shaft,
    where a node has room for both: fewer nodes, and blocks without padding.
    """
    own, groups = _rows(nb, row_bodies, inner)
    nodes = [
        (rows[k : k + d], pair) for pair, rows in groups.items() for k in range(0, len(rows), d)
    ]
    cut: list[tuple[list[int], tuple[int, ...]]] = []
    hosts: dict[int, int] = {}  # of a body: the node of its rows to the ground
    for rows, pair in nodes:
        moving = [b for b in pair if b < nb]
        if len(moving) == 1:
            hosts.setdefault(moving[0], len(cut))
            cut.append((rows, pair))
    for rows, pair in nodes:
        moving = [b for b in pair if b < nb]
        if len(moving) == 1:
            continue
        room = [hosts[b] for b in moving if b in hosts and len(cut[hosts[b]][0]) + len(rows) <= d]
        if room:
            host = room[-1]
            cut[host] = (cut[host][0] + rows, pair)
        else:
            cut.append((rows, pair))
    return own, cut, [set(range(nb)) for _ in cut]


def carried_bodies(nb: int, row_bodies: BodiesOfRows, inner: int) -> list[set[int]]:
    """For every body, those that hang on it in the tree of `schedule`: its children."""
    parent = _tree(nb, _rows(nb, row_bodies, inner)[1])
    carried: list[set[int]] = [set() for _ in range(nb)]
    for body, above in parent.items():
        if above < nb and above != body:
            carried[above].add(body)
    return carried


def _tree(nb: int, groups: dict[tuple[int, ...], list[int]]) -> dict[int, int]:
    """The parent of every body, itself for a root: Prim's tree, joints with many rows first, then
    those close to the ground.
    """
    neighbors: list[list[tuple[int, int]]] = [[] for _ in range(nb + 1)]
    for bodies, rows in groups.items():
        for a in bodies:
            neighbors[a] += [(b, len(rows)) for b in bodies if b != a and len(bodies) == 2]
    parent, depth = {nb: nb}, {nb: 0}
    for root in [nb, *range(nb)]:
        if root != nb and root in parent:
            continue
        parent.setdefault(root, root)
        depth.setdefault(root, 0)
        edges = [(-n, depth[root], root, b) for b, n in neighbors[root]]
        while edges:
            edges.sort(reverse=True)
            _, _, a, b = edges.pop()
            if b in parent:
                continue
            parent[b], depth[b] = a, depth[a] + 1
            edges += [(-n, depth[b], b, c) for c, n in neighbors[b] if c not in parent]
    return parent


def supernodes(
    nb: int, d: int, row_bodies: BodiesOfRows, inner: int, couplers: frozenset[int]
) -> Nodes:
    """Rows of every supernode, row groups that are cut, and the bodies each of these waits for.

    A body takes in the row of a coupler too, where its node has room beside those of its joint: a
    train of gears is a chain then.
    """
    own, groups = _rows(nb, row_bodies, inner)
    parent = _tree(nb, groups)
    cut: list[tuple[list[int], tuple[int, ...]]] = []
    for bodies, rows in sorted(groups.items(), key=lambda x: couplers.issuperset(x[1])):
        ends = (bodies, bodies[::-1]) if len(bodies) == 2 else ()
        child = next((x for x, y in ends if x < nb and parent[x] == y), None)
        if couplers.issuperset(rows) and child is None:
            room = [b for b in bodies if b < nb and 0 < len(own[b]) and len(own[b] + rows) <= d]
            if room:
                own[room[-1]] += rows
                continue
        if child is not None:
            room = d - len(own[child])
            own[child] += rows[:room]
            rows = rows[room:]
        for k in range(0, len(rows), d):
            cut.append((rows[k : k + d], bodies))

    def path(a: int) -> list[int]:
        nodes = [a]
        while parent[nodes[-1]] != nodes[-1]:
            nodes.append(parent[nodes[-1]])
        return nodes

    waits = []
    for _, bodies in cut:
        # All bodies of the loop but those that lie on every branch.
        paths = [set(path(b)) for b in bodies]
        waits.append({body for body in set.union(*paths) - set.intersection(*paths) if body < nb})
    return own, cut, waits
