BEGIN { trace((int)"x"); }
