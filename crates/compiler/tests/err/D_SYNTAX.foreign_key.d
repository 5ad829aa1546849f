int seen[nge_t *]; BEGIN { }
