BEGIN { &`jiffies = (int *)1; }
