pid123::malloc:entry { trace(arg6); }
