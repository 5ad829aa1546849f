BEGIN { printff("x"); }
