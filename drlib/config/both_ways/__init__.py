"""Topics that two flows of a pair copy in both directions under one name, or the flows of a ring: which they are, and what is refused for them."""
