// Each precompiled header is compiled for a target that holds nothing else, and reused by all others.
