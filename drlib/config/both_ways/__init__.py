"""Topics that both flows of a pair, or all of a ring, copy under one name: which they are, and what is refused for them."""
