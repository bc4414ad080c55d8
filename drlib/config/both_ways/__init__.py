"""Topics that two flows of a pair copy in both directions under one name: which they are, and what is refused for them."""
