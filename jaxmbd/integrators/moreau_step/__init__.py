"""The parts of a step of `Moreau`: motions without impacts, and impacts between them."""
