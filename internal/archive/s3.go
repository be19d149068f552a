package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"ajo/internal/secret"
)

// S3 says which bucket of an S3-compatible store keeps the archive.
type S3 struct {
	Endpoint  string // https://host[:port]
	Region    string
	Bucket    string
	Prefix    string // before every name; may be empty
	AccessKey string
	SecretKey secret.Redacted
	PathStyle bool // the bucket stands in the path, not in the host's name
}

const (
	// s3Part is what one request uploads; 10,000 of them are the most that an object can have: 160
	// GB. One is in memory at a time.
	s3Part = 16 << 20
	// s3Tries is how often one request is made; what is left is the next run's.
	s3Tries = 3
	// s3Answer bounds how long the store may take to begin its answer to one request.
	s3Answer = time.Minute
)

type s3Store struct {
	S3
	client *minio.Client
}

// OpenS3 makes the store. Nothing is asked of it yet.
func OpenS3(s S3) (Store, error) {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("must be https://host or https://host:port")
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = s3Answer
	o := &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey.Reveal(), ""), Secure: u.Scheme == "https", Region: s.Region,
		Transport: transport, MaxRetries: s3Tries, BucketLookup: minio.BucketLookupDNS,
	}
	if s.PathStyle {
		o.BucketLookup = minio.BucketLookupPath
	}
	c, err := minio.New(u.Host, o)
	if err != nil {
		return nil, err
	}
	return &s3Store{s, c}, nil
}

func (s *s3Store) String() string { return "s3://" + path.Join(s.Bucket, s.Prefix) }

func (s *s3Store) Put(ctx context.Context, name string, r io.Reader) error {
	// Each part goes with its MD5, in a signed header. Signing the body in chunks as well needs a
	// framing that not every compatible store reads; and all is read back anyway.
	_, err := s.client.PutObject(ctx, s.Bucket, s.key(name), &reading{ctx, r}, -1, minio.PutObjectOptions{
		PartSize: s3Part, ContentType: "application/octet-stream", SendContentMd5: true, DisableContentSha256: true,
	})
	return err
}

func (s *s3Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	o, err := s.client.GetObject(ctx, s.Bucket, s.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := o.Stat(); err != nil { // the request is made here
		_ = o.Close()
		if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%s: %w", name, ErrNoObject)
		}
		return nil, err
	}
	return o, nil
}

func (s *s3Store) List(ctx context.Context, each func(string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefix := s.key("")
	for o := range s.client.ListObjects(ctx, s.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return o.Err
		}
		if err := each(strings.TrimPrefix(o.Key, prefix)); err != nil {
			return err
		}
	}
	return nil
}

func (s *s3Store) key(name string) string {
	if s.Prefix == "" {
		return name
	}
	return strings.Trim(s.Prefix, "/") + "/" + name
}
