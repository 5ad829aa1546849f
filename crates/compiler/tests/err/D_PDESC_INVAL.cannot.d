pid123::broken:entry { }
