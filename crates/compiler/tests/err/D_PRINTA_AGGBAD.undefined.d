BEGIN { @abcd = count(); printa(@abce); }
