"""How accurate methods and number formats are where they are at their worst."""
