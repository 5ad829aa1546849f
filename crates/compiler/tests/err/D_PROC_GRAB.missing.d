pid9::malloc:entry { }
