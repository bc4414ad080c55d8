"""Earlier pointers: which cluster served, since when, by which run, and where its logs ended, as each cluster keeps them."""
