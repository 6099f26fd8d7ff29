#!/bin/bash
# What: registered text inside gzip, zip (also with an unknown extension), xz, bz2, docx, xlsx, pdf, sqlite, pickle, png tEXt, jpg comment, tar, UTF-16 with and without BOM, UTF-32, EBCDIC, NUL-padded text.
# Want: each is refused (4) as a file and staged.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; python3 - "$LEAK" <<'P'
import sys,gzip,zipfile,lzma,bz2,sqlite3,pickle,zlib,struct,tarfile,io
t=sys.argv[1]; b=t.encode(); w=lambda n,d: open(n,'wb').write(d)
w('a.gz',gzip.compress(b)); w('a.xz',lzma.compress(b)); w('a.bz2',bz2.compress(b)); w('z.zz',zlib.compress(b))
z=zipfile.ZipFile('compressed.other','w'); z.writestr('s.txt',t); z.close()
z=zipfile.ZipFile('d.docx','w'); z.writestr('word/document.xml',f'<w:t>{t}</w:t>'); z.close(); z=zipfile.ZipFile('d.xlsx','w'); z.writestr('xl/sharedStrings.xml',t); z.close()
c=sqlite3.connect('d.sqlite'); c.execute('create table a(b)'); c.execute('insert into a values(?)',(t,)); c.commit(); w('p.pkl',pickle.dumps({'q':t}))
def png(extra=b''): 
    ch=lambda n,d: struct.pack('>I',len(d))+n+d+struct.pack('>I',zlib.crc32(n+d))
    return b'\x89PNG\r\n\x1a\n'+ch(b'IHDR',struct.pack('>IIBBBBB',1,1,8,0,0,0,0))+extra+ch(b'IDAT',zlib.compress(b'\0\0'))+ch(b'IEND',b'')
ch=lambda n,d: struct.pack('>I',len(d))+n+d+struct.pack('>I',zlib.crc32(n+d))
w('t.png',png(ch(b'tEXt',b'Comment\0'+b))); w('trail.png',png()+b); w('x.pdf',b'%PDF-1.4\n'+b+b'\n%%EOF')
w('u16le.txt',t.encode('utf-16-le')); w('u16bom.txt',t.encode('utf-16')); w('u32.txt',t.encode('utf-32')); w('ebcdic.txt',t.encode('cp037')); w('nul.txt',b'\0'.join(bytes([x]) for x in b)); w('nulend.txt',b+b'\0'*10); w('l1.txt',b+'é'.encode('latin-1'))
tf=tarfile.open('a.tar','w'); i=tarfile.TarInfo('x'); i.size=len(b); tf.addfile(i,io.BytesIO(b)); tf.close(); w('self.sh',b'#!/bin/sh\nexit\n'+gzip.compress(b))
P
for f in *; do [ $f = README.md ] && continue; gate "$f"; [ $? = 4 ] || bad "$f passes as a file: $(said)"; git add "$f"; gate --staged; [ $? = 4 ] || bad "$f passes when staged: $(said)"; git reset -q; done; good
