BEGIN / *curthread / { }
