"""The graph of bodies and joints: which of them are connected, and which joints close loops."""


class Forest:
    """Groups of connected nodes, joined one edge at a time.

    Args:
        nodes: Their number; bodies first, then the ground.
    """

    def __init__(self, nodes: int):
        self._above = list(range(nodes))

    def root(self, node: int) -> int:
        """The node that stands for a group."""
        while self._above[node] != node:
            self._above[node] = self._above[self._above[node]]
            node = self._above[node]
        return node

    def join(self, *nodes: int) -> bool:
        """Connect some nodes; False where two of them were connected already, so that the edge
        closes a loop.
        """
        roots = [self.root(node) for node in nodes]
        for root in roots:
            self._above[root] = roots[-1]
        return len(set(roots)) == len(roots)
