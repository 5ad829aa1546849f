struct s { int x; }; int a[struct s]; BEGIN { }
