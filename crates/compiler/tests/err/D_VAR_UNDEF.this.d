BEGIN { this->time = 1; trace(this->tme); }
