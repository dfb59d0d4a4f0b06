"""How accurate the methods are where they are at their worst."""
