// Holds the precompiled header of LibTorch for every target that reuses it.
