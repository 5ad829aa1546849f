self char big[40000]; BEGIN { self->big[1] = 1; }
